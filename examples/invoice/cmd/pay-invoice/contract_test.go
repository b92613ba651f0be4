package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/examples/invoice/erp"
	"github.com/mcptask/mcptask/examples/invoice/money"
	"github.com/mcptask/mcptask/examples/invoice/order"
	"github.com/mcptask/mcptask/examples/invoice/payment"
)

// toolFile is what agents are promised.
const toolFile = "../../tool.yaml"

type tool struct {
	Spec struct {
		InputSchema, OutputSchema map[string]any
		JobTemplate               struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
	}
}

func readTool(t *testing.T) (read tool) {
	t.Helper()
	text, err := os.ReadFile(toolFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// fits says how a value misses a schema; nil when it does not.
func fits(t *testing.T, schema map[string]any, value any) error {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("schema")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(plain)
}

func TestArgumentsOfTheSchemaAreFlags(t *testing.T) {
	t.Setenv("MCPTASK_TASK_ID", "t1")
	tool := readTool(t)
	given := map[string]string{"invoice": "INV-1", "vendor": "Bolt & Nut, $(X)", "amount": "1250.00", "currency": "EUR"}
	if err := fits(t, tool.Spec.InputSchema, given); err != nil {
		t.Error(err)
	}
	args := []string{}
	for _, arg := range tool.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args {
		for name, value := range given {
			arg = strings.ReplaceAll(arg, "$(ARG_"+strings.ToUpper(name)+")", value)
		}
		args = append(args, arg)
	}
	s, err := readSettings(args)
	if want := (payment.Request{Invoice: "INV-1", Vendor: "Bolt & Nut, $(X)", Amount: 125000, Currency: "EUR"}); err != nil || s.request != want || s.work.Tolerance != 100 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, value := range map[string]any{"invoice": "../x", "vendor": "", "amount": "12.5", "currency": "euro"} {
		wrong := map[string]any{"invoice": "INV-1", "vendor": "V", "amount": "1.00", "currency": "EUR", name: value}
		if fits(t, tool.Spec.InputSchema, wrong) == nil {
			t.Errorf("the schema accepts %s %q", name, value)
		}
	}
}

func TestResultsFitTheSchema(t *testing.T) {
	schema := readTool(t).Spec.OutputSchema
	amount := money.Amount(125000)
	for _, result := range []payment.Result{
		{Invoice: "I", Status: payment.Paid, PaidAmount: &amount, Currency: "EUR", PaymentKey: "t1/I"},
		{Invoice: "I", Status: payment.Declined},
		{Invoice: "I", Status: payment.Declined, Reason: "r"},
		{Invoice: "I", Status: payment.Rejected, Reason: "r"},
	} {
		if err := fits(t, schema, result.ToolResult()["structuredContent"]); err != nil {
			t.Errorf("%+v: %v", result, err)
		}
	}
	for _, result := range []payment.Result{{Invoice: "I", Status: payment.Paid}, {Invoice: "I", Status: "lost"}, {Invoice: "I", Status: payment.Declined, PaymentKey: "k"}} {
		if fits(t, schema, result) == nil {
			t.Errorf("the schema accepts %+v", result)
		}
	}
}

// The orders of the example can be placed at the ERP of the example.
func TestOrdersAndBooks(t *testing.T) {
	schema := readTool(t).Spec.InputSchema
	orders, err := order.ReadOrders("../../orders.json")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile("../../erp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Data map[string]string }
	first, _, _ := strings.Cut(string(manifests), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &config); err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/books.json"
	if err := os.WriteFile(file, []byte(config.Data["books.json"]), 0o600); err != nil {
		t.Fatal(err)
	}
	books, err := erp.ReadBooks(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range orders {
		if _, ok := books[o.Invoice]; !ok {
			t.Errorf("%s: the ERP has no %s", o.Order, o.Invoice)
		}
		arguments := map[string]any{"invoice": o.Invoice, "vendor": o.Vendor, "amount": o.Amount, "currency": o.Currency}
		if err := fits(t, schema, arguments); err != nil {
			t.Errorf("%s: %v", o.Order, err)
		}
	}
}
