package node

import (
	"context"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/admission"
)

// MetricInfo is one metric of a node.
type MetricInfo struct {
	Name   string
	Labels []string
	Help   string
}

// referenceCores is the machine whose numbers the reference shows, where a
// limit depends on the machine.
const referenceCores = 2

// Reference starts a node with the default limits on loopback, in a temporary
// directory, and lists its limits and metrics: docs/reference is written from
// what a node really has.
func Reference(ctx context.Context) (limits []admission.Info, metrics []MetricInfo, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(referenceCores))
	home, err := os.MkdirTemp("", "allium-reference-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(home)
	n, err := New(home, config.Default(p2p.Testnet), Deps{})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = n.Run(ctx, func() {
		limits, metrics = n.limits.Snapshot(), describe(n.registry)
		cancel()
	})
	return limits, metrics, err
}

// HTTPReference is what the gateway serves: as an OpenAPI document and as a page
// without its heading.
func HTTPReference() (openapi, page []byte, err error) {
	if openapi, err = gateway.OpenAPI(); err != nil {
		return nil, nil, err
	}
	page, err = gateway.HTTPPage()
	return openapi, page, err
}

// descPattern reads a description's text: the library has no other way to its
// name.
var descPattern = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{(.*)\}\}$`)

// describe lists the metrics of this program by name. Those of the Go runtime
// and of libp2p are documented by their own projects.
func describe(r *prometheus.Registry) []MetricInfo {
	descs := make(chan *prometheus.Desc)
	var sending sync.WaitGroup
	sending.Go(func() {
		defer close(descs)
		r.Describe(descs)
	})
	defer sending.Wait()
	var infos []MetricInfo
	for d := range descs {
		m := descPattern.FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		name, err1 := strconv.Unquote(m[1])
		help, err2 := strconv.Unquote(m[2])
		if err1 != nil || err2 != nil || foreign(name) {
			continue
		}
		info := MetricInfo{Name: name, Help: help}
		if m[3] != "" {
			info.Labels = strings.Split(m[3], ",")
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b MetricInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

func foreign(name string) bool {
	for _, prefix := range []string{"go_", "process_", "libp2p_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
