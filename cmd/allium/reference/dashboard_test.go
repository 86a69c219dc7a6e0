package reference

import (
	"strings"
	"testing"

	"allium/node"
)

// TestMetricIn: a query has one metric of the reference, and groups by labels that this has.
func TestMetricIn(t *testing.T) {
	t.Parallel()
	metrics := []node.MetricInfo{{Name: "took_seconds", Labels: []string{"op"}}, {Name: "peers"}}
	for expr, want := range map[string]string{
		quantile("took_seconds", "op"): "",
		"sum(peers$S)":                 "",
		"max by (instance) (peers$S)":  "",
		"sum by (op) (rate(took_seconds_count$S[$__rate_interval]))": "",
		"sum(gone$S)":                        "no metric gone",
		"sum by (kind) (peers$S)":            "no label kind",
		"sum(peers$S) / sum(took_seconds$S)": "2 metrics",
		"sum(peers)":                         "0 metrics",
	} {
		_, err := metricIn(metrics, expr)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
	if _, err := dashboard(metrics); err == nil {
		t.Error("a dashboard of metrics that do not exist")
	}
}
