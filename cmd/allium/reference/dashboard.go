package reference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"allium/internal/lazyregexp"
	"allium/node"
)

// panel is a graph of the dashboard. Each of its queries has one metric of the reference, whose help describes it.
type panel struct {
	title string
	unit  string // of Grafana
	exprs []string
}

// byInstance is the place of the selector in a query: the nodes that the reader chose.
const byInstance = `$S`

// sections are the rows of the dashboard: rate, errors and duration of requests, then what is nearly full, then what
// keeps objects.
var sections = []struct {
	title  string
	panels []panel
}{
	{"Requests: rate, errors, duration", []panel{
		{"HTTP requests, by route", "reqps", []string{
			`sum by (route) (rate(request_latency_seconds_count$S[$__rate_interval]))`}},
		{"HTTP requests refused, by reason", "reqps", []string{
			`sum by (reason) (rate(rejected_total$S[$__rate_interval]))`,
			`sum by (reason) (rate(edge_rejects_total$S[$__rate_interval]))`}},
		{"HTTP: 99th percentile, by route", "s", []string{quantile("request_latency_seconds", "route")}},
		{"Answers cut, panics", "reqps", []string{
			`sum(rate(gateway_cut_total$S[$__rate_interval]))`, `sum(rate(gateway_panics_total$S[$__rate_interval]))`}},
		{"Opening objects: 99th percentile, by way", "s", []string{quantile("resolve_latency_seconds", "type")}},
		{"Lookups in the DHT: 99th percentile", "s", []string{quantile("dht_lookup_seconds", "op")}},
		{"Requests between peers: outcomes", "reqps", []string{
			`sum by (side, reason) (rate(object_outcomes_total$S[$__rate_interval]))`}},
		{"Requests between peers: 99th percentile", "s", []string{
			quantile("object_request_latency_seconds", "side, op")}},
		{"Verified bytes, in and out", "Bps", []string{`sum by (dir) (rate(object_bytes_total$S[$__rate_interval]))`}},
		{"Transfers that were too slow, by operation", "ops", []string{
			`sum by (op) (rate(io_timeouts_total$S[$__rate_interval]))`}},
		{"Assets: hits, misses, stale", "reqps", []string{
			`sum(rate(edge_cache_hits_total$S[$__rate_interval]))`,
			`sum(rate(edge_cache_misses_total$S[$__rate_interval]))`,
			`sum(rate(edge_stale_total$S[$__rate_interval]))`}},
		{"Tiles of packs, by result", "reqps", []string{
			`sum by (result) (rate(pack_tiles_total$S[$__rate_interval]))`}},
	}},
	{"Saturation", []panel{
		{"Requests refused while not ready, by phase", "reqps", []string{
			`sum by (phase) (rate(not_ready_total$S[$__rate_interval]))`}},
		{"Pressure", "short", []string{`max by (instance) (pressure_state$S)`}},
		{"What is in use: the ten largest", "short", []string{`topk(10, queue_depth$S)`}},
		{"Refused as full, by limit", "ops", []string{
			`topk(10, sum by (queue) (rate(queue_dropped_total$S[$__rate_interval])) > 0)`}},
		{"Waiting for a core, 99th percentile", "s", []string{quantile("cpu_wait_seconds", "class")}},
		{"Space: used, the bound, free on the disk", "bytes", []string{
			`sum(store_used_bytes$S)`, `sum(store_max_bytes$S)`, `sum(store_free_bytes$S)`}},
		{"Writes refused as full", "ops", []string{`sum(rate(store_full_total$S[$__rate_interval]))`}},
		{"Services restarted, by service", "short", []string{
			`sum by (task) (increase(service_restarts_total$S[$__rate_interval])) > 0`}},
		{"Peers in the routing table", "short", []string{`sum by (instance) (dht_table_peers$S)`}},
		{"Seeds connected", "short", []string{`sum by (instance) (dht_seeds_connected$S)`}},
	}},
	{"Durability", []panel{
		{"Copies: asked for, and observed", "short", []string{`sum(rf_target$S)`, `sum(rf_observed$S)`}},
		{"Objects at risk, unreachable, lost", "short", []string{
			`sum(durability_at_risk_objects$S)`, `sum(durability_unreachable_objects$S)`,
			`sum(durability_lost_objects$S)`}},
		{"Members of the cluster, by state", "short", []string{`max by (state) (durability_members$S)`}},
		{"Proofs of copies, by result", "ops", []string{
			`sum by (result) (rate(durability_proofs_total$S[$__rate_interval]))`}},
		{"Repairs, by kind and outcome", "ops", []string{
			`sum by (kind, outcome) (rate(repair_objects_total$S[$__rate_interval]))`}},
		{"Bytes of repairs, by kind", "Bps", []string{
			`sum by (kind) (rate(repair_bytes_total$S[$__rate_interval]))`}},
		{"Objects that failed a check, by reason", "short", []string{
			`sum by (reason) (increase(integrity_fail_total$S[$__rate_interval]))`}},
		{"Damaged objects, open findings", "short", []string{
			`sum(store_corrupt_objects$S)`, `sum(store_recovery_open$S)`}},
		{"Scrub: share of the cycle that is done", "percentunit", []string{
			`min by (instance) (scrub_progress_ratio$S)`}},
		{"Provider records: how late", "s", []string{`max by (instance) (provide_lag_seconds$S)`}},
	}},
}

// quantile is the query of the 99th percentile of a histogram, by labels.
func quantile(metric, labels string) string {
	return "histogram_quantile(0.99, sum by (le, " + labels + ") (rate(" + metric + "_bucket$S[$__rate_interval])))"
}

// metricOf finds the metric of a query.
var metricOf = lazyregexp.New(`([a-z0-9_]+)\$S`)

// labelsOf finds the labels by which a query groups.
var labelsOf = lazyregexp.New(`by \(([a-z, ]+)\)`)

// dashboard returns the dashboard of Grafana. It returns an error for a query of a metric or a label that the reference
// does not have.
func dashboard(metrics []node.MetricInfo) ([]byte, error) {
	var panels []any
	y := 0
	for _, s := range sections {
		panels = append(panels, map[string]any{
			"id": len(panels) + 1, "type": "row", "title": s.title, "collapsed": false, "panels": []any{},
			"gridPos": place{H: 1, W: 24, Y: y},
		})
		y++
		for i, p := range s.panels {
			g, err := p.graph(metrics)
			if err != nil {
				return nil, err
			}
			g["id"], g["gridPos"] = len(panels)+1, place{H: 8, W: 8, X: 8 * (i % 3), Y: y + 8*(i/3)}
			panels = append(panels, g)
		}
		y += 8 * ((len(s.panels) + 2) / 3)
	}
	page, err := json.MarshalIndent(map[string]any{
		"title": "allium", "uid": "allium", "tags": []string{"allium"}, "schemaVersion": 39, "editable": true,
		"description": "Written by `make docs` from the metrics of the program.",
		"refresh":     "30s", "time": map[string]string{"from": "now-3h", "to": "now"},
		"panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
			map[string]any{
				"name": "instance", "label": "Node", "type": "query", "datasource": source, "refresh": 2,
				"query": "label_values(pressure_state, instance)", "multi": true, "includeAll": true, "allValue": ".*",
			},
		}},
	}, "", "  ")
	return append(page, '\n'), err
}

// place is the corner and the size of a panel, of a dashboard that is 24 wide.
type place struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// source is the data source that the reader chose.
var source = map[string]string{"type": "prometheus", "uid": "${source}"}

// graph returns the panel as Grafana reads it, without its id and place.
func (p panel) graph(metrics []node.MetricInfo) (map[string]any, error) {
	var targets []any
	var says []string
	for i, expr := range p.exprs {
		m, err := metricIn(metrics, expr)
		if err != nil {
			return nil, fmt.Errorf("the panel %q: %w", p.title, err)
		}
		says = append(says, m.Name+": "+m.Help)
		legend := m.Name
		if by := labelsOf().FindStringSubmatch(expr); by != nil {
			legend = ""
			for label := range strings.SplitSeq(by[1], ", ") {
				if label != "le" {
					legend += " {{" + label + "}}"
				}
			}
		} else if strings.HasPrefix(expr, "topk") {
			legend = "{{queue}} {{instance}}"
		}
		targets = append(targets, map[string]any{
			"refId": string(rune('A' + i)), "datasource": source, "legendFormat": strings.TrimSpace(legend),
			"expr": strings.ReplaceAll(expr, byInstance, `{instance=~"$instance"}`),
		})
	}
	return map[string]any{
		"type": "timeseries", "title": p.title, "description": strings.Join(says, "\n\n"), "datasource": source,
		"targets": targets,
		"fieldConfig": map[string]any{
			"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{},
		},
	}, nil
}

// metricIn returns the metric of a query, or an error if it or a label of the query is not in the reference.
func metricIn(metrics []node.MetricInfo, expr string) (m node.MetricInfo, err error) {
	found := metricOf().FindAllStringSubmatch(expr, -1)
	if len(found) != 1 {
		return m, fmt.Errorf("%s has %d metrics, not one", expr, len(found))
	}
	name := found[0][1]
	at := slices.IndexFunc(metrics, func(m node.MetricInfo) bool {
		return m.Name == name || m.Name+"_bucket" == name || m.Name+"_count" == name
	})
	if at < 0 {
		return m, fmt.Errorf("there is no metric %s", name)
	}
	m = metrics[at]
	for _, by := range labelsOf().FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if label != "le" && label != "instance" && !slices.Contains(m.Labels, label) {
				return m, fmt.Errorf("%s has no label %s", m.Name, label)
			}
		}
	}
	return m, nil
}
