package exchange

import (
	"slices"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// maxFreshness is the longest min_freshness. No record lives that long.
const maxFreshness = 30 * 24 * time.Hour

// QueryParams are the parameters of an endpoint that finds providers.
var QueryParams = []Param{
	{Name: "limit", Kind: IntegerParam, Doc: "the most providers in the answer, 1 to 32; if missing, 5"},
	{Name: "region", Doc: "only providers that say they are in this region, a label of up to 32 bytes"},
	{
		Name: "min_freshness",
		Doc:  "only providers whose record was signed at most so long ago, for example `30m` or `12h`",
	},
	FlagParam("fresh", "asks the network, and uses neither the cache nor what this node knows"),
}

// NameParams are the parameters of an endpoint that finds what a name stands for.
var NameParams = append(slices.Clone(QueryParams), Param{
	Name: "max_stale",
	Doc: "of a name: also takes a record that ended at most so long ago, for example `1h`, and looks the name up " +
		"behind the answer; at most `720h`, and not together with fresh",
})

// Lookup returns the query that the parameters QueryParams or NameParams make, or bad_request.
func (q Params) Lookup() (api.Query, error) {
	asked := api.Query{Region: q.Text("region"), Fresh: q.Flag("fresh")}
	if q.Text("limit") != "" {
		n := q.Int("limit", 0)
		if n < 1 || n > api.MaxProviders {
			return asked, status.Errorf(status.BadRequest, "parameter limit is %d. Set it to a number from 1 to %d",
				n, api.MaxProviders)
		}
		asked.Limit = int(n)
	}
	if n := len(asked.Region); n > api.MaxRegion {
		return asked, status.Errorf(status.BadRequest,
			"parameter region has %d bytes. Set it to a label of at most %d bytes", n, api.MaxRegion)
	}
	if text := q.Text("min_freshness"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > maxFreshness {
			return asked, status.Errorf(status.BadRequest,
				"parameter min_freshness is %q. Set it to a duration of at most 720h, such as 30m or 12h", Clip(text))
		}
		asked.MinFreshness = d
	}
	if text := q.Text("max_stale"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > maxStaleness {
			return asked, status.Errorf(status.BadRequest,
				"parameter max_stale is %q. Set it to a duration of at most 720h, such as 10m or 1h", Clip(text))
		}
		if asked.Fresh {
			return asked, status.Errorf(status.BadRequest, "max_stale and fresh contradict each other. Leave one out")
		}
		asked.MaxStale = d
	}
	return asked, nil
}
