package endpoint

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// What 2,000 open streams cost, each with one task of its own and one that all of them are about: memory a stream, and
// CPU time an event that reaches a client. The clients are bare connections in the same process; what they use is counted.
func BenchmarkListen(b *testing.B) {
	const streams = 2000
	f := newFixture(b, func(c *Config) { c.MaxStreamsPerCaller, c.MaxStreams = streams, streams })
	f.offer("tool", nil)
	shared := f.handle(b, "tool")
	own := make([]string, streams)
	for i := range own {
		own[i] = f.handle(b, "tool")
	}
	host := strings.TrimSuffix(strings.TrimPrefix(f.alice.URL, "http://"), "/mcp/team")
	connections := make([]net.Conn, streams)
	before := residentMemory(b)
	for i := range connections {
		connection, err := net.Dial("tcp", host)
		if err != nil {
			b.Fatal(err)
		}
		defer connection.Close()
		request, err := f.alice.Request(b.Context(), "subscriptions/listen", taskIDs(shared, own[i]))
		if err != nil {
			b.Fatal(err)
		}
		if err := request.Write(connection); err != nil {
			b.Fatal(err)
		}
		connections[i] = connection
	}
	told := func(events float64) {
		eventually(b, "all clients are told", func() bool { return f.metric(b, "notifications_total") == events })
	}
	sent := float64(2 * streams)
	told(sent)
	memory := residentMemory(b) - before

	buffer := make([]byte, 64<<10)
	drain := func() {
		for _, connection := range connections {
			if _, err := connection.Read(buffer); err != nil {
				b.Fatal(err)
			}
		}
	}
	drain()
	start, first := cpuTime(b), sent
	for i := 0; b.Loop(); i++ {
		f.cluster.change(b, shared, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: fmt.Sprint("page ", i)})
		sent += streams
		told(sent)
		drain()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(memory)/streams/1024, "KiB-RSS/stream")
	b.ReportMetric(float64(cpuTime(b)-start)/(sent-first)/1000, "µs-CPU/event")
}

// residentMemory is the process's, in bytes, once what is garbage has been given back.
func residentMemory(b *testing.B) int {
	for range 3 {
		debug.FreeOSMemory()
		time.Sleep(10 * time.Millisecond) // for stacks to be found unused
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err) // only Linux says it
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
