package node

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway"
	"allium/internal/lazyregexp"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/dht/messages"
	"allium/protocols/name"
)

// MetricInfo is one metric of a node.
type MetricInfo struct {
	Name   string
	Labels []string
	Help   string
	Series int // that a node has right after its start
}

// RecordRefusals lists the reasons for which a node refuses provider records.
func RecordRefusals() []messages.RefusalInfo { return messages.Refusals() }

// NameRefusals lists the reasons for which a node refuses name records.
func NameRefusals() []name.RefusalInfo { return name.Refusals() }

// The machine of the reference: some limits depend on its cores and memory.
const (
	referenceCores  = 2
	referenceMemory = 4 << 30 // bytes
)

// Lists has the limits, metrics and tasks of a node.
type Lists struct {
	Limits  []limits.Info
	Metrics []MetricInfo
	Tasks   []tasks.Info
}

// Reference starts a node with the default limits on loopback, in a temporary
// directory, and returns what it lists. docs/reference is generated from that.
func Reference(ctx context.Context) (l Lists, err error) {
	home, err := os.MkdirTemp("", "allium-reference-")
	if err != nil {
		return l, err
	}
	defer os.RemoveAll(home)
	cfg := config.Default(p2p.Testnet)
	cfg.Listen.MaxMemory = referenceMemory / 4
	cfg.Trace.Endpoint, cfg.Trace.Ratio = "http://127.0.0.1:4318/v1/traces", 0 // nothing is sent
	n, err := New(home, cfg, Deps{Process: NewProcess(referenceCores)})
	if err != nil {
		return l, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var gather error
	err = n.Run(ctx, func() {
		l = Lists{n.limits.Snapshot(), describe(n.registry), n.tasks.Snapshot()}
		gather = countSeries(n.registry, l.Metrics)
		cancel()
	})
	return l, errors.Join(err, gather)
}

// countSeries sets the Series of each metric.
func countSeries(r *prometheus.Registry, metrics []MetricInfo) error {
	families, err := r.Gather()
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	for i := range metrics {
		metrics[i].Series = series[metrics[i].Name]
	}
	return err
}

// HTTPReference returns the description of the gateway's routes, as an OpenAPI
// document and as a Markdown page without its heading.
func HTTPReference() (openapi, page []byte, err error) {
	if openapi, err = gateway.OpenAPI(); err != nil {
		return nil, nil, err
	}
	page, err = gateway.HTTPPage()
	return openapi, page, err
}

// descPattern parses the text of a prometheus.Desc. The library has no other way
// to read the name, help and labels.
var descPattern = lazyregexp.New(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), ` +
	`.*constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// constLabel finds the constant labels in the text of a prometheus.Desc.
var constLabel = lazyregexp.New(`([a-z_]+)="(?:[^"\\]|\\.)*"`)

// describe lists the metrics of this program, sorted by name, each name once. It
// leaves out those of the Go runtime, the process and libp2p, which their own
// projects document.
func describe(r *prometheus.Registry) []MetricInfo {
	descs := make(chan *prometheus.Desc)
	var sending sync.WaitGroup
	sending.Go(func() {
		defer close(descs)
		r.Describe(descs)
	})
	defer sending.Wait()
	infos := map[string]MetricInfo{}
	for d := range descs {
		m := descPattern().FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		name, err1 := strconv.Unquote(m[1])
		help, err2 := strconv.Unquote(m[2])
		if err1 != nil || err2 != nil || foreign(name) {
			continue
		}
		var labels []string
		for _, l := range constLabel().FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		if m[4] != "" {
			labels = append(labels, strings.Split(m[4], ",")...)
		}
		infos[name] = MetricInfo{Name: name, Labels: labels, Help: help}
	}
	return slices.SortedFunc(maps.Values(infos), func(a, b MetricInfo) int { return strings.Compare(a.Name, b.Name) })
}

// foreign reports whether a library defines the metric.
func foreign(name string) bool {
	for _, prefix := range []string{"go_", "process_", "libp2p_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
