package main

import (
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	t.Setenv("MCPTASK_TASK_ID", "t1")
	all := map[string]string{"invoice": "INV-1", "vendor": "Acme", "amount": "1250.00", "currency": "EUR", "erp": "http://erp"}
	for name, value := range map[string]string{
		"invoice": "", "vendor": "", "currency": "", "erp": "", "amount": "0.00", "tolerance": "one", "pace": "3", "speed": "9",
	} {
		args := []string{"--" + name + "=" + value}
		for other, v := range all {
			if other != name {
				args = append(args, "--"+other+"="+v)
			}
		}
		var said strings.Builder
		if code := run(args, &said); code != exitUsage || !strings.Contains(said.String(), name) || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("--%s=%s: exit %d, %q", name, value, code, said.String())
		}
	}
}

func TestTaskIsRequired(t *testing.T) {
	t.Setenv("MCPTASK_TASK_ID", "")
	var said strings.Builder
	args := []string{"--invoice=I", "--vendor=V", "--amount=1.00", "--currency=EUR", "--erp=http://erp"}
	if code := run(args, &said); code != exitUsage || !strings.Contains(said.String(), "MCPTASK_TASK_ID") {
		t.Errorf("exit %d, %q", code, said.String())
	}
}
