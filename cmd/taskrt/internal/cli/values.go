package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// codeValue is an option that is the code of a JSON-RPC error.
type codeValue int32

func (c *codeValue) String() string { return "" }
func (c *codeValue) Type() string   { return "N" }

func (c *codeValue) Set(text string) error {
	code, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	}
	*c = codeValue(code)
	return nil
}

// timeValue is an option that is a time to wait.
type timeValue time.Duration

func (d *timeValue) String() string { return "" }
func (d *timeValue) Type() string   { return "TIME" }

func (d *timeValue) Set(text string) error {
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return errors.New("must be a time to wait, such as 90s, 30m or 1h30m")
	}
	*d = timeValue(wait)
	return nil
}
