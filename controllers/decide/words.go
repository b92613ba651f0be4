package decide

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// maxWords bounds a message, in bytes: whole sentences of the API server and of a scheduler with many nodes fit.
const maxWords = 1024

// OneLine is text as a message may hold it: one line without control characters, which tables and terminals would obey, of
// bounded length.
func OneLine(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	line = strings.ToValidUTF8(line, "\uFFFD")
	if len(line) <= maxWords {
		return line
	}
	end := maxWords - len("…")
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}

// because adds what the cluster said, where it said anything.
func because(words, said string) string {
	if said = strings.TrimRight(strings.TrimSpace(said), "."); said == "" {
		return words
	}
	return words + ": " + said
}

// clock is a point in time for people.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// span is a length of time for people: 5m, not 5m0s.
func span(d time.Duration) string {
	words := d.String()
	for _, nothing := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(words, nothing) {
			words = words[:len(words)-2]
		}
	}
	return words
}

// terminationWords is the end of what a container wrote before it failed: its termination message, which falls back to the log's last
// lines (at most 2 KiB or 80 lines).
func terminationWords(t *corev1.ContainerStateTerminated) string {
	const keep = 400
	said := OneLine(t.Message)
	if len(said) <= keep {
		return said
	}
	start := len(said) - keep
	for !utf8.RuneStart(said[start]) {
		start++
	}
	return "…" + said[start:]
}
