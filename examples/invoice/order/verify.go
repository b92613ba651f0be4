package order

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/mcptask/mcptask/examples/invoice/erp"
	"github.com/mcptask/mcptask/examples/invoice/payment"
)

// WriteRecord prints what the ERP recorded of claims and payments.
func WriteRecord(w io.Writer, record []erp.Entry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tINVOICE\tWHAT\tCLAIM\tAMOUNT\tBY")
	for _, entry := range record {
		at := entry.Time.Local().Format("15:04:05.000")
		switch {
		case entry.Claim != nil:
			fmt.Fprintf(table, "%s\t%s\tclaim\t%d\t\t%s\n", at, entry.Claim.Invoice, entry.Claim.Claim, entry.Claim.By)
		case entry.Payment != nil:
			what := "PAYMENT"
			if !entry.Paid() {
				what = "payment refused"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", at, entry.Payment.Invoice, what, entry.Payment.Claim, entry.Payment.Amount, entry.Payment.By)
		}
	}
	return table.Flush()
}

// Verify holds the ERP's record against what became of the orders, prints a line for each, and says how many are wrong: a
// paid invoice must have exactly one payment, under the task's key, and any other none; each order must have ended, with its
// stock reserved.
func Verify(w io.Writer, orders []Order, journal *Journal, record []erp.Entry) (wrong int, err error) {
	payments := map[string][]erp.Payment{}
	reserved := map[string]int{}
	for _, entry := range record {
		if entry.Paid() {
			payments[entry.Payment.Invoice] = append(payments[entry.Payment.Invoice], *entry.Payment)
		}
		if entry.Reservation != nil {
			reserved[entry.Reservation.Order] = entry.Reservation.Items
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ORDER\tINVOICE\tOUTCOME\tPAYMENTS\tKEY\tAMOUNT\t")
	for _, order := range orders {
		entry, _ := journal.Entry(order.Order)
		made := payments[order.Invoice]
		fault := ""
		switch {
		case entry.Outcome == "":
			fault = "has not ended"
		case entry.Outcome == Paid && len(made) != 1:
			fault = "is to have exactly one payment"
		case entry.Outcome == Paid && made[0].Key != payment.Key(entry.Task, order.Invoice):
			fault = "has a payment under another key"
		case entry.Outcome != Paid && len(made) != 0:
			fault = "is to have no payment"
		case reserved[order.Order] != order.Items:
			fault = "has no stock reserved"
		}
		mark := ""
		if fault != "" {
			wrong++
			mark = "<- " + fault
		}
		key, amount := "", ""
		if len(made) > 0 {
			key, amount = made[0].Key, made[0].Amount.String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", order.Order, order.Invoice, entry.Outcome, len(made), key, amount, mark)
	}
	return wrong, table.Flush()
}
