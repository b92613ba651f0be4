// Package money holds amounts exactly: as whole cents, written with two decimals.
package money

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Amount is an amount in hundredths of its currency.
type Amount int64

// Pattern is what an amount looks like as text, as a regular expression. It bounds amounts to below ten billion.
const Pattern = `^[0-9]{1,10}\.[0-9]{2}$`

var pattern = regexp.MustCompile(Pattern)

// Parse reads an amount such as 1250.00.
func Parse(text string) (Amount, error) {
	if !pattern.MatchString(text) {
		return 0, fmt.Errorf("%q is not an amount with two decimals, such as 1250.00", text)
	}
	cents, err := strconv.ParseInt(strings.Replace(text, ".", "", 1), 10, 64)
	return Amount(cents), err
}

// String writes the amount as Parse reads it. Amounts are never negative.
func (a Amount) String() string { return fmt.Sprintf("%d.%02d", a/100, a%100) }

// Apart is by how much two amounts differ.
func Apart(a, b Amount) Amount { return max(a-b, b-a) }

// MarshalText implements encoding.TextMarshaler.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) (err error) {
	*a, err = Parse(string(text))
	return err
}
