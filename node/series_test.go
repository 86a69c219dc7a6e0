package node_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"allium/node"
)

// openLabels are the counters whose labels have values that only what happens makes: outcomes of the table of SPEC §3
// beside other labels, or names that a library gives.
var openLabels = map[string]string{
	"announce_published_total":         "outcomes",
	"announce_refused_total":           "outcomes by how they came",
	"announce_syncs_total":             "outcomes by side",
	"dht_served_total":                 "outcomes by operation",
	"gc_cycles_total":                  "outcomes",
	"gossip_refused_total":             "outcomes by topic",
	"http2_errors_total":               "names that Go gives",
	"index_requests_total":             "outcomes by operation",
	"links_requests_total":             "outcomes by operation",
	"object_outcomes_total":            "outcomes by side and operation",
	"own_names_sent_total":             "outcomes",
	"reach_hole_punches_total":         "results by NAT and transport",
	"repair_objects_total":             "outcomes by kind",
	"repair_requests_total":            "outcomes by operation",
	"repair_skipped_total":             "reasons by kind",
	"resolver_provider_failures_total": "outcomes",
	"store_bucket_bytes_total":         "a bucket's, which this node has not",
	"store_bucket_requests_total":      "a bucket's, which this node has not",
}

// TestSeriesFromTheStart: the counters of every closed list are there when a node has started, with what the code
// declares, so that an alert sees the first event.
func TestSeriesFromTheStart(t *testing.T) {
	t.Parallel()
	lists, err := node.Reference(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	labelled := map[string]bool{}
	for _, m := range lists.Metrics {
		if !strings.HasSuffix(m.Name, "_total") || len(m.Labels) == 0 {
			continue
		}
		labelled[m.Name] = true
		if _, open := openLabels[m.Name]; !open && m.Series == 0 {
			t.Errorf("%s has no series after the start, so an alert misses its first event", m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(openLabels)) {
		if !labelled[name] && name != "store_bucket_bytes_total" && name != "store_bucket_requests_total" {
			t.Errorf("%s is no counter with labels", name)
		}
	}
}
