// Command order places purchase orders: it reserves stock and has the tool pay_invoice pay, for all orders at once, and
// plays the people who are asked about the invoices.
//
//	order place    places the orders, or goes on with them, until all have ended
//	order verify   holds the ERP's record against what became of the orders
//
// It may be killed and started again: what it has done stands in the --journal. It exits with 0 when all is well, with 1
// when something went wrong, with 2 when a flag is wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcptask/mcptask/cmd/mcptask/incluster"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/examples/invoice/erpclient"
	"github.com/mcptask/mcptask/examples/invoice/order"
)

// settings are what the command line says.
type settings struct {
	orders, journal, erp      string
	namespace, serviceAccount string
	thinkAtLeast, think       time.Duration
	seed                      uint64
}

func main() {
	var s settings
	flags := flag.NewFlagSet("order place|verify", flag.ExitOnError)
	flags.StringVar(&s.orders, "orders", "", "JSON file with the orders")
	flags.StringVar(&s.journal, "journal", "", "file that remembers what was done; made when it is missing")
	flags.StringVar(&s.erp, "erp", "", "URL of the ERP")
	flags.StringVar(&s.namespace, "namespace", "", "namespace of the tool; the kubeconfig's when empty")
	flags.StringVar(&s.serviceAccount, "service-account", "", "service account to call the tool as")
	flags.DurationVar(&s.thinkAtLeast, "think-at-least", 0, "how long people think about a question, at least")
	flags.DurationVar(&s.think, "think", 5*time.Second, "how long people think about a question, at most")
	flags.Uint64Var(&s.seed, "seed", 1, "decides how long they think, and so in which order they answer")
	if len(os.Args) < 2 {
		flags.Usage()
		os.Exit(2)
	}
	_ = flags.Parse(os.Args[2:]) // exits by itself
	do := map[string]func(context.Context, settings) error{"place": place, "verify": verify}[os.Args[1]]
	if do == nil || flags.NArg() > 0 || s.orders == "" || s.journal == "" || s.erp == "" || s.thinkAtLeast > s.think {
		fmt.Fprintln(os.Stderr, "order: say place or verify; --orders, --journal and --erp are required; --think must not be less than --think-at-least")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := do(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "order: %v\n", err)
		os.Exit(1)
	}
}

func place(ctx context.Context, s settings) error {
	orders, err := order.ReadOrders(s.orders)
	if err != nil {
		return fmt.Errorf("--orders: %w", err)
	}
	journal, err := order.OpenJournal(s.journal)
	if err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	agent, end, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	caller := &order.Caller{
		Agent: agent, Stock: erpclient.New(s.erp, 0), Journal: journal,
		ThinkAtLeast: s.thinkAtLeast, Think: s.think, Random: rand.New(rand.NewPCG(s.seed, 0)), Show: show,
	}
	return caller.Place(ctx, orders)
}

// show prints a line of the table of changes.
func show(e order.Event) {
	fmt.Printf("%s  %-8s %-9s %-15s %s\n", time.Now().Format("15:04:05"), e.Order, e.Invoice, e.What, e.Words)
}

func verify(ctx context.Context, s settings) error {
	orders, err := order.ReadOrders(s.orders)
	if err != nil {
		return fmt.Errorf("--orders: %w", err)
	}
	journal, err := order.OpenJournal(s.journal)
	if err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	record, err := erpclient.New(s.erp, 0).Record(ctx)
	if err != nil {
		return err
	}
	fmt.Println("What the ERP recorded:")
	if err := order.WriteRecord(os.Stdout, record); err != nil {
		return err
	}
	fmt.Println("\nWhat became of the orders:")
	wrong, err := order.Verify(os.Stdout, orders, journal, record)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d of %d orders are not as they should be", wrong, len(orders))
	}
	if err != nil {
		return err
	}
	fmt.Println("\nExactly one payment for each paid invoice, and none for the others.")
	return nil
}

// connect reaches the bridge through the cluster's API server, as the mcptask command does.
func connect(ctx context.Context, s settings) (*mcpclient.Client, func(), error) {
	cluster, err := incluster.Load("", "", s.namespace)
	if err != nil {
		return nil, nil, err
	}
	bridge, err := cluster.Find(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	endpoint, err := bridge.Endpoint(cluster.Namespace)
	if err != nil {
		return nil, nil, err
	}
	tokens := cluster.ServiceAccountTokens(ctx, s.serviceAccount, bridge.Audience(cluster.Namespace))
	forwarder := cluster.NewForwarder(bridge)
	return mcpclient.New(endpoint, mcpclient.Options{
		Tasks: true, Capabilities: order.Capabilities, Name: "order", HTTPClient: forwarder.HTTPClient(),
		Token: func(context.Context) (string, error) {
			token, err := tokens.Token()
			if err != nil {
				return "", err
			}
			return token.AccessToken, nil
		},
	}), forwarder.Close, nil
}
