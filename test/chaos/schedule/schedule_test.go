package schedule

import (
	"reflect"
	"testing"
	"time"
)

func TestAPlanIsMadeOfItsSeedAlone(t *testing.T) {
	if !reflect.DeepEqual(Plan(7, 200), Plan(7, 200)) {
		t.Error("one seed made two plans")
	}
	if reflect.DeepEqual(Plan(7, 200), Plan(8, 200)) {
		t.Error("two seeds made one plan")
	}
}

func TestPlansHaveTheFaultsThatWereAskedFor(t *testing.T) {
	for seed := range uint64(50) {
		for _, n := range []int{0, 1, 12, len(order), 300} {
			plan := Plan(seed, n)
			kinds := map[Kind]int{}
			for i, fault := range plan {
				kinds[fault.Kind]++
				if fault.N != i+1 || fault.Pause <= 0 || fault.For < properties[fault.Kind].least || fault.For > properties[fault.Kind].most {
					t.Errorf("seed %d: %+v", seed, fault)
				}
			}
			if len(plan) != n || len(kinds) != min(n, len(order)) {
				t.Errorf("seed %d: %d faults of %d kinds instead of %d", seed, len(plan), len(kinds), n)
			}
		}
	}
}

func TestOneRoleAtATimeIsTakenAway(t *testing.T) {
	for seed := range uint64(50) {
		var now, back time.Duration
		for _, fault := range Plan(seed, 300) {
			now += fault.Pause
			if !fault.Kind.Wide() {
				continue
			}
			if now < back {
				t.Errorf("seed %d: %s comes %s too early", seed, fault, back-now)
			}
			back = now + fault.For + settle
		}
	}
}

// So many roles are not taken away that they are left over for the end, one after another.
func TestALongPlanIsMixedToItsEnd(t *testing.T) {
	for seed := range uint64(50) {
		wide := 0
		for _, fault := range Plan(seed, 1000)[950:] {
			if fault.Kind.Wide() {
				wide++
			}
		}
		if wide > 25 {
			t.Errorf("seed %d: of the last 50 faults %d take away a role", seed, wide)
		}
	}
}

func TestAThousandFaultsTakeAboutAnHourAndAHalf(t *testing.T) {
	var all time.Duration
	for _, fault := range Plan(1, 1000) {
		all += fault.Pause
	}
	if all < time.Hour || all > 2*time.Hour {
		t.Errorf("they take %s", all)
	}
}

func TestEveryKindIsDescribed(t *testing.T) {
	if len(order) != len(properties) {
		t.Errorf("%d kinds in order, %d described", len(order), len(properties))
	}
	for _, kind := range order {
		if properties[kind].weight <= 0 {
			t.Errorf("%s never comes", kind)
		}
	}
}
