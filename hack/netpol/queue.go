package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// Where packets wait for what is decided about them, and whose they are: the numbers and names of the kernel's packet filter.
const (
	queue       = 100 // of nfnetlink_queue; the library's too, unless told otherwise
	libraryName = "mcptask-netpol"
	ownName     = "mcptask-netpol-target"
	probeName   = "mcptask-netpol-probe"
)

// handOver sees to it that packets come to the queue, and returns what ends that. The library does it by the queue expression of
// nftables, for which some kernels are built without CONFIG_NFT_QUEUE. For those it is done by the target that iptables has for it,
// which nftables can use too (CONFIG_NFT_COMPAT and CONFIG_NETFILTER_XT_TARGET_NFQUEUE).
func handOver() (end func() error, err error) {
	lacking := libraryCan()
	if lacking == nil {
		return func() error { return nil }, nil
	}
	if err := byTarget(); err != nil {
		return nil, fmt.Errorf("the kernel hands no packets over, neither by nftables (module nft_queue) nor by the target of iptables (modules nft_compat and xt_NFQUEUE): %w",
			errors.Join(lacking, err))
	}
	fmt.Println("netpol: the kernel lacks nft_queue, packets come by xt_NFQUEUE: that other rules cannot be written, as is said below, is no loss")
	return noTarget, nil
}

// libraryCan says whether the kernel takes such a rule as the library writes. When it does not, the library only logs it.
func libraryCan() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Name: probeName, Family: nftables.TableFamilyINet})
	chain := conn.AddChain(&nftables.Chain{Name: "probe", Table: table}) // on no hook: no packet sees it
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Queue{}}})
	conn.DelTable(table)
	return conn.Flush() // all of it or nothing
}

// byTarget queues the first packet of every connection that the node forwards, after its destination and before its source is
// translated: from and to its Pods, also among them when they share a bridge (net.bridge.bridge-nf-call-iptables). What the
// node itself sends to its Pods is not forwarded, and always let through, as Kubernetes wants it.
func byTarget() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: ownName, Family: nftables.TableFamilyINet}
	conn.AddTable(table) // there may be one, of a process that was killed
	conn.DelTable(table)
	conn.AddTable(table)
	chain := conn.AddChain(&nftables.Chain{Name: "forward", Table: table,
		Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
	known, none := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), make([]byte, 4)
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{ // ct state established,related accept
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: known, Xor: none},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: none},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{ // queue num 100 bypass
		&expr.Target{Name: "NFQUEUE", Rev: 3, Info: targetInfo()},
	}})
	return conn.Flush()
}

func noTarget() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.DelTable(&nftables.Table{Name: ownName, Family: nftables.TableFamilyINet})
	return conn.Flush()
}

// targetInfo is struct xt_NFQ_info_v3 of linux/netfilter/xt_NFQUEUE.h, padded to eight bytes. When nobody listens, packets pass:
// otherwise a process that was killed would leave a node that forwards nothing.
func targetInfo() *xt.Unknown {
	const queues, bypass = 1, 1
	var info xt.Unknown
	for _, number := range []uint16{queue, queues, bypass, 0} {
		info = binary.NativeEndian.AppendUint16(info, number)
	}
	return &info
}
