package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
	"allium/internal/limits"
)

// The normal clients beside an attack of slow ones. Each has an address of its
// own and asks less than an equal share of the rate, so that none of them is
// refused for what it does itself.
const (
	slowFor     = 10 * time.Second
	slowWarm    = 12 * time.Second // until all have begun, and the first were cut off and are back
	slowNormals = 8                // that keep their connection, and as many that do not
	slowRate    = 10               // requests per second of each
)

// normals are the two kinds of normal clients.
type normals struct{ kept, fresh clients.Answers }

func (n *normals) add(m normals) {
	n.kept.Add(m.kept)
	n.fresh.Add(m.fresh)
}

// askNormally lets the normal clients ask for a page.
func askNormally(ctx context.Context, page string, length time.Duration) (n normals, err error) {
	every := time.Second / slowRate
	askers := func(keep bool, host byte) ([]*clients.Asker, error) {
		all := make([]*clients.Asker, slowNormals)
		for i := range all {
			if all[i], err = clients.NewAsker(page, net.IPv4(127, 0, host, byte(1+i)), keep); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	kept, err := askers(true, 1)
	if err != nil {
		return n, err
	}
	fresh, err := askers(false, 2)
	if err != nil {
		return n, err
	}
	var both sync.WaitGroup
	both.Go(func() { n.fresh = clients.Gateway(ctx, fresh, every, length) })
	n.kept = clients.Gateway(ctx, kept, every, length)
	both.Wait()
	return n, nil
}

// Slow compares normal clients of an idle gateway with the same beside
// thousands that send headers and bodies slowly: such as come back slowly when
// they are cut off, which is what the target is for, with headers and bodies and
// with so many headers that the listener is full, and such as are back at once. A
// bare net/http server is attacked in the same way.
func Slow(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	both, err := startBoth(ctx, s, "slow")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, both.stop()) }()
	node, bare, page, token := both.node, both.bare, both.page, both.token
	for _, c := range []struct {
		what, come, target string
		p                  *measure.Process
		page               string
	}{
		{"slow", comeSlowly, "≤ 2", node, page},
		{"slow, bare", comeSlowly, "", bare, bare.Gate + "/"},
		{"slow headers", justHeaders, "≤ 2", node, page},
		{"slow flood", comeAtOnce, "", node, page},
		{"slow flood, bare", comeAtOnce, "", bare, bare.Gate + "/"},
	} {
		r, err := attack(ctx, c.p, c.what+": ", c.page, c.come, token, c.target)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.what, err)
		}
		rows = append(rows, r...)
	}
	return rows, nil
}

// moment holds the counters at a moment of an attack.
type moment struct {
	measure.Taken
	slow   slowCounts
	node   map[string]float64
	kernel map[string]int64
}

func (a *attackers) moment(ctx context.Context, p *measure.Process) (m moment, err error) {
	if m.slow, err = a.counts(); err != nil {
		return m, err
	}
	if p.Admin != "" {
		if m.node, err = p.Counters(ctx); err != nil {
			return m, err
		}
	}
	if m.kernel, err = measure.KernelTCP(); err != nil {
		return m, err
	}
	m.Taken, err = measure.Take(p)
	return m, err
}

// attack measures normal clients of p alone, beside slow ones, and alone again.
func attack(
	ctx context.Context, p *measure.Process, what, page, come, token, target string,
) (_ []measure.Row, err error) {
	if _, err := askNormally(ctx, page, time.Second); err != nil { // warm
		return nil, err
	}
	idle, err := askNormally(ctx, page, slowFor/2)
	if err != nil {
		return nil, err
	}
	slow, err := startAttackers(ctx, strings.TrimPrefix(p.Gate, "http://"), come, token)
	if err != nil {
		return nil, err
	}
	from, to, beside, err := slow.beside(ctx, p, page)
	if err = errors.Join(err, slow.stop()); err != nil {
		return nil, err
	}
	rss, err := p.Memory()
	if err != nil {
		return nil, err
	}
	load, err := measure.LoadAverage()
	if err != nil {
		return nil, err
	}
	if err := limits.Sleep(ctx, time.Second); err != nil { // their connections end
		return nil, err
	}
	after, err := askNormally(ctx, page, slowFor/2)
	if err != nil {
		return nil, err
	}
	idle.add(after)

	if why := cmp.Or(beside.kept.Why, beside.fresh.Why); why != nil {
		fmt.Printf("%sone of the normal requests failed: %v\n", what, why)
	}
	length := to.At.Sub(from.At)
	nodeCPU, others := to.Since(from.Taken)
	slowCPU := percent(to.slow.CPU-from.slow.CPU, length)
	each := func(n int64) float64 { return float64(n) / length.Seconds() }
	line := func(name, unit, target string, v float64) measure.Row {
		return measure.Single(what+name, unit, target, v)
	}
	rows := []measure.Row{
		line("p99, kept connections, idle", "ms", "", idle.kept.P99()),
		line("the same beside them", "ms", "", beside.kept.P99()),
		line("beside ÷ idle", "×", target, beside.kept.P99()/idle.kept.P99()),
		line("p99, a new connection each, idle", "ms", "", idle.fresh.P99()),
		line("the same beside them", "ms", "", beside.fresh.P99()),
		line("beside ÷ idle", "×", target, beside.fresh.P99()/idle.fresh.P99()),
		line("p50, a new connection each, beside ÷ idle", "×", "", beside.fresh.P50()/idle.fresh.P50()),
		line("normal requests", "", "", float64(beside.kept.All()+beside.fresh.All())),
		line("of these answered", "", "", float64(len(beside.kept.Took)+len(beside.fresh.Took))),
		line("of these refused with 429", "", "0", float64(beside.kept.Refused+beside.fresh.Refused)),
		line("of these failed", "", "0", float64(beside.kept.Failed+beside.fresh.Failed)),
		line("the asker woke up late by (p99)", "ms", "", measure.Millis(beside.kept.Late, 99)),
		line("connections open at the end", "", "", float64(to.slow.Open)),
		line("connections begun", "/s", "", each(to.slow.Dialled-from.slow.Dialled)),
		line("of these not established", "/s", "", each(to.slow.Failed-from.slow.Failed)),
		line("cut without an answer", "/s", "", each(to.slow.Cut-from.slow.Cut)),
	}
	for _, status := range sortedKeys(to.slow.Answered) {
		rows = append(rows, line(fmt.Sprintf("answered %d", status), "/s", "",
			each(to.slow.Answered[status]-from.slow.Answered[status])))
	}
	for _, name := range sortedKeys(to.node) {
		if d := to.node[name] - from.node[name]; strings.HasPrefix(name, "rejected_total{") && d > 0 {
			rows = append(rows, line(name, "/s", "", d/length.Seconds()))
		}
	}
	if to.node != nil {
		rows = append(rows, line("goroutines of the node", "", "", to.node["go_goroutines"]))
	}
	for _, name := range []string{"ListenOverflows", "ListenDrops", "TCPReqQFullDrop"} {
		rows = append(rows, line(name, "", "0", float64(to.kernel[name]-from.kernel[name])))
	}
	return append(rows,
		line("RSS", "MB", "", bed.MB(rss)),
		line("CPU of the server", "% of cores", "", nodeCPU),
		line("CPU of the slow clients", "% of cores", "", slowCPU),
		line("CPU of other programs", "% of cores", "", max(0, others-slowCPU)),
		line("load average", "", "", load),
	), nil
}

// beside measures normal clients while the attack goes on.
func (a *attackers) beside(
	ctx context.Context, p *measure.Process, page string,
) (from, to moment, n normals, err error) {
	if err = limits.Sleep(ctx, slowWarm); err != nil {
		return from, to, n, err
	}
	if from, err = a.moment(ctx, p); err != nil {
		return from, to, n, err
	}
	if n, err = askNormally(ctx, page, slowFor); err != nil {
		return from, to, n, err
	}
	to, err = a.moment(ctx, p)
	return from, to, n, err
}

func sortedKeys[K interface{ ~int | ~string }, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
