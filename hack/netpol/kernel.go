package main

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// checkKernel says whether the kernel can queue packets for a program by a rule of nftables. Without that nothing is enforced, and
// the library that this rests on only logs it.
func checkKernel() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("reaching nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Name: "mcptask-netpol-probe", Family: nftables.TableFamilyINet})
	chain := conn.AddChain(&nftables.Chain{Name: "probe", Table: table}) // on no hook: no packet sees it
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Queue{}}})
	conn.DelTable(table)
	if err := conn.Flush(); err != nil { // all of it or nothing
		return fmt.Errorf("the kernel queues no packets by nftables (CONFIG_NFT_QUEUE, the module nft_queue): %w", err)
	}
	return nil
}
