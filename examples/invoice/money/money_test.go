package money

import (
	"encoding/json"
	"testing"
)

func TestAmountsKeepTheirCents(t *testing.T) {
	for text, want := range map[string]Amount{"0.00": 0, "0.07": 7, "1250.00": 125000, "9999999999.99": 999999999999} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is %d, written %s (%v); want %d", text, got, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "1.0", "1.000", "-1.00", "1,00", "1e2", " 1.00", "1.00\n", "10000000000.00"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

func TestAmountsAreJSONStrings(t *testing.T) {
	text, err := json.Marshal(map[string]Amount{"amount": 125050})
	if err != nil || string(text) != `{"amount":"1250.50"}` {
		t.Errorf("%s, %v", text, err)
	}
	var read struct{ Amount Amount }
	if err := json.Unmarshal(text, &read); err != nil || read.Amount != 125050 {
		t.Errorf("%d, %v", read.Amount, err)
	}
	if err := json.Unmarshal([]byte(`{"amount":"12"}`), &read); err == nil {
		t.Error("an amount without decimals is taken")
	}
}

func TestApart(t *testing.T) {
	if Apart(100, 250) != 150 || Apart(250, 100) != 150 || Apart(5, 5) != 0 {
		t.Error("amounts are not as far apart as they are")
	}
}
