// Package progress tells a waiting person what is going on: full lines for
// what has happened, and one moving line for what is under way.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// quietInterval is how often the moving line is repeated where it cannot move,
// in a log file.
const quietInterval = 15 * time.Second

// Reporter writes progress to a terminal or to a log. It may be used by several
// goroutines at once.
type Reporter struct {
	mu       sync.Mutex
	out      io.Writer
	terminal int // file descriptor, or -1
	start    time.Time
	moving   bool
	last     time.Time
}

// New returns a Reporter that writes to f, with a moving line if f is a terminal.
func New(f *os.File) *Reporter {
	r := &Reporter{out: f, terminal: -1, start: time.Now()}
	if term.IsTerminal(int(f.Fd())) {
		r.terminal = int(f.Fd())
	}
	return r
}

// Linef writes a line that stays, with the time since the start before it.
func (r *Reporter) Linef(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	r.write(format, args)
	fmt.Fprintln(r.out)
	r.last = time.Now()
}

// Movingf replaces the moving line. In a log it writes a line, but not before
// fifteen seconds have passed since the last one.
func (r *Reporter) Movingf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal < 0 {
		if time.Since(r.last) >= quietInterval {
			r.write(format, args)
			fmt.Fprintln(r.out)
			r.last = time.Now()
		}
		return
	}
	r.clear()
	r.write(format, args)
	r.moving = true
}

// Done removes the moving line.
func (r *Reporter) Done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
}

func (r *Reporter) clear() {
	if r.moving {
		fmt.Fprint(r.out, "\r\x1b[K")
		r.moving = false
	}
}

func (r *Reporter) write(format string, args []any) {
	line := fmt.Sprintf("%6.1fs  %s", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
	if r.terminal >= 0 {
		if width, _, err := term.GetSize(r.terminal); err == nil && width > 1 {
			if runes := []rune(line); len(runes) >= width {
				line = string(runes[:width-1])
			}
		}
	}
	fmt.Fprint(r.out, line)
}
