package v1alpha1

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"regexp"
	"strings"
)

var (
	taskID      = regexp.MustCompile(`^[a-z][a-z2-7]{25}$`)
	taskIDChars = base32.StdEncoding.WithPadding(base32.NoPadding)
)

// NewTaskID makes the name of a new task: a letter and 25 characters of lower-case base32, about 130 random bits. Who
// knows it and is its owner has the task (MCP tasks, Security Considerations: task IDs must not be guessable).
func NewTaskID() string {
	var random [20]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the program instead
	letter := 'a' + rune(binary.BigEndian.Uint32(random[16:])%26)
	return string(letter) + strings.ToLower(taskIDChars.EncodeToString(random[:16]))[:25]
}

// ValidTaskID says whether a name has the shape of a task's: only then can it be one.
func ValidTaskID(name string) bool { return taskID.MatchString(name) }
