package answer

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends r as encoding/json writes it. /resolve and /providers answer from a
// cache, where reflection would take a third of the time. The answer for a name is left to
// encoding/json.
func (r *Resolved) AppendJSON(b []byte) []byte {
	if r.Path != "" || r.Value != "" || len(r.Chain) > 0 || r.Seq != 0 || !r.NotAfter.IsZero() || r.Stale {
		p, err := json.Marshal(r)
		if err != nil { // a year beyond 9999
			p = []byte("{}")
		}
		return append(b, p...)
	}
	b = appendText(b, `{"key":`, r.Key)
	b, _ = r.Target.AppendText(append(b, `,"target":"`...)) // it never fails
	b = appendText(b, `","source":`, r.Source)
	b = strconv.AppendInt(append(b, `,"age_ms":`...), r.AgeMS, 10)
	b = strconv.AppendInt(append(b, `,"ttl_ms":`...), r.TTLMS, 10)
	b = appendText(b, `,"confidence":`, string(r.Confidence))
	b = appendProviders(b, r.Providers)
	b = appendText(b, `,"lookup_id":`, r.LookupID)
	return append(b, '}')
}

// AppendJSON appends p as encoding/json writes it.
func (p *Providers) AppendJSON(b []byte) []byte {
	b = appendText(b, `{"key":`, p.Key)
	b = appendProviders(b, p.Providers)
	b = appendText(b, `,"source":`, p.Source)
	b = strconv.AppendInt(append(b, `,"age_ms":`...), p.AgeMS, 10)
	b = appendText(b, `,"lookup_id":`, p.LookupID)
	return append(b, '}')
}

// appendText appends a member's name and its value.
func appendText(b []byte, name, value string) []byte {
	b, _ = jsontext.AppendQuote(append(b, name...), value) // it fails for invalid UTF-8 alone, and mends it
	return b
}

func appendProviders(b []byte, all []Provider) []byte {
	b = append(b, `,"providers":[`...)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = all[i].appendJSON(b)
	}
	return append(b, ']')
}

func (p *Provider) appendJSON(b []byte) []byte {
	b = append(appendText(b, `{"id":`, p.ID), `,"addrs":[`...)
	for i, a := range p.Addrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, "", a)
	}
	b = append(b, ']')
	if p.Region != "" {
		b = appendText(b, `,"region":`, p.Region)
	}
	if p.RTTMS != 0 {
		b = strconv.AppendFloat(append(b, `,"rtt_ms":`...), p.RTTMS, 'f', -1, 64)
	}
	if !p.NotAfter.IsZero() {
		b = append(p.NotAfter.AppendFormat(append(b, `,"not_after":"`...), time.RFC3339Nano), '"')
	}
	if p.Source != "" {
		b = appendText(b, `,"source":`, p.Source)
	}
	if p.Confidence != "" {
		b = appendText(b, `,"confidence":`, string(p.Confidence))
	}
	return append(b, '}')
}
