package record

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Log is all that was seen. Its methods may be called at the same time; its fields are for reading once nothing is added any more.
type Log struct {
	Calls   []Call
	Reads   []Read
	Answers []Answer
	Cancels []Cancel
	Deeds   []Deed
	Objects []Object
	Faults  []Fault
	Bodies  map[string]string

	mu   sync.Mutex
	file *os.File
}

// Create begins a log that is also written to a file.
func Create(name string) (*Log, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("begin the record: %w", err)
	}
	return &Log{Bodies: map[string]string{}, file: file}, nil
}

// line is one line of the file; one of its fields is set.
type line struct {
	Call   *Call   `json:"call,omitempty"`
	Read   *Read   `json:"read,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Cancel *Cancel `json:"cancel,omitempty"`
	Deed   *Deed   `json:"deed,omitempty"`
	Object *Object `json:"object,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	Body   *Body   `json:"body,omitempty"`
}

// Load reads the file of a log.
func Load(name string) (*Log, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	defer file.Close()
	l := &Log{Bodies: map[string]string{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var entry line
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return nil, fmt.Errorf("read the record: %s:%d: %w", name, n, err)
		}
		l.keep(entry)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	return l, nil
}

func (l *Log) keep(entry line) {
	switch {
	case entry.Call != nil:
		l.Calls = append(l.Calls, *entry.Call)
	case entry.Read != nil:
		l.Reads = append(l.Reads, *entry.Read)
	case entry.Answer != nil:
		l.Answers = append(l.Answers, *entry.Answer)
	case entry.Cancel != nil:
		l.Cancels = append(l.Cancels, *entry.Cancel)
	case entry.Deed != nil:
		l.Deeds = append(l.Deeds, *entry.Deed)
	case entry.Object != nil:
		l.Objects = append(l.Objects, *entry.Object)
	case entry.Fault != nil:
		l.Faults = append(l.Faults, *entry.Fault)
	case entry.Body != nil:
		l.Bodies[entry.Body.Hash] = entry.Body.Text
	}
}

// add appends an entry. A record that cannot be kept is worth nothing, so that this ends the run.
func (l *Log) add(entry line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(entry)
}

func (l *Log) write(entry line) {
	l.keep(entry)
	if l.file == nil {
		return
	}
	text, err := json.Marshal(entry)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("the record cannot be written: %v", err))
	}
}

// Call, Read, Answer, Cancel, Deed, Object and Fault add what their names say.

func (l *Log) Call(c Call)     { l.add(line{Call: &c}) }
func (l *Log) Read(r Read)     { l.add(line{Read: &r}) }
func (l *Log) Answer(a Answer) { l.add(line{Answer: &a}) }
func (l *Log) Cancel(c Cancel) { l.add(line{Cancel: &c}) }
func (l *Log) Deed(d Deed)     { l.add(line{Deed: &d}) }
func (l *Log) Object(o Object) { l.add(line{Object: &o}) }
func (l *Log) Fault(f Fault)   { l.add(line{Fault: &f}) }

// Body keeps a text once and returns its hash.
func (l *Log) Body(text string) string {
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.Bodies[hash]; !ok {
		l.write(line{Body: &Body{hash, text}})
	}
	return hash
}

// Close ends the file; what comes later is not in it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	file := l.file
	l.file = nil
	return file.Close()
}
