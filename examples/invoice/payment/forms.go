package payment

import "github.com/mcptask/mcptask/examples/invoice/money"

// The forms that people fill in (MCP, Elicitation, Requested Schema).
var approval = map[string]any{
	"type":     "object",
	"required": []string{"approve"},
	"properties": map[string]any{
		"approve": map[string]any{"type": "boolean", "title": "Approve", "description": "Whether the invoice is to be paid."},
		"comment": map[string]any{"type": "string", "title": "Comment", "maxLength": 500},
	},
}

// correction offers two amounts.
func correction(invoice, expected money.Amount) map[string]any {
	return map[string]any{
		"type":     "object",
		"required": []string{"amount"},
		"properties": map[string]any{
			"amount": map[string]any{"type": "string", "title": "Amount", "enum": []string{invoice.String(), expected.String()}},
		},
	}
}
