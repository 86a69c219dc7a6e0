package exchange

import (
	"testing"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// TestLookup reads the parameters of a search for providers.
func TestLookup(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]api.Query{
		"":                           {},
		"limit=1":                    {Limit: 1},
		"limit=32&fresh=true":        {Limit: 32, Fresh: true},
		"region=eu-west":             {Region: "eu-west"},
		"min_freshness=90m&limit=07": {MinFreshness: 90 * time.Minute, Limit: 7},
		"max_stale=1h":               {MaxStale: time.Hour},
		"max_stale=720h":             {MaxStale: 720 * time.Hour},
	} {
		q, err := ParseParams(query, NameParams())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Lookup(); err != nil || got != want {
			t.Errorf("%q: %+v, %v", query, got, err)
		}
	}
	for _, query := range []string{
		"limit=0", "limit=-1", "limit=33", "limit=9223372036854775808", "limit=5x", "limit=5&limit=6", "limt=5",
		"region=123456789012345678901234567890123", "min_freshness=soon", "min_freshness=0s", "min_freshness=-1h",
		"max_stale=0s", "max_stale=-1s", "max_stale=60", "max_stale=721h", "max_stale=1h&fresh=true",
		"min_freshness=721h", "min_freshness=5", "fresh=yes", "trace=true", "%zz",
	} {
		q, err := ParseParams(query, NameParams())
		if err == nil {
			_, err = q.Lookup()
		}
		if status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", query, err)
		}
	}
}

// FuzzLookup feeds queries that the parser must refuse or turn into a query within
// its bounds.
func FuzzLookup(f *testing.F) {
	for _, seed := range []string{
		"", "limit=5&region=eu&min_freshness=1h&fresh=true", "limit=33", "min_freshness=9999999h", "region=%00", "a;b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := ParseParams(query, QueryParams())
		var asked api.Query
		if err == nil {
			asked, err = q.Lookup()
		}
		switch {
		case err != nil:
			if status.Of(err) != status.BadRequest {
				t.Errorf("%q: %v", query, err)
			}
		case asked.Limit < 0 || asked.Limit > api.MaxProviders || len(asked.Region) > api.MaxRegion ||
			asked.MinFreshness < 0 || asked.MinFreshness > 720*time.Hour || asked.All:
			t.Errorf("%q: %+v", query, asked)
		}
	})
}
