package index

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/oap"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
)

// The operations.
const (
	opResolve   = "resolve"
	opProviders = "providers"
)

const (
	// MaxRecords is the most signed records of an answer: two for each name of a chain, and a
	// provider record and a peer record for each provider.
	MaxRecords = 2*name.MaxSteps + 2*answer.MaxProviders

	maxKey   = 256                 // bytes of a key
	maxStale = 30 * 24 * time.Hour // the longest life of a record

	// defaultLimit is the number of providers when a request has no limit (SPEC §9).
	defaultLimit = 5
)

// resolveRequest asks what a key stands for. MaxStaleMS is how long ago the TTL of a record, or the
// record itself, may have ended.
type resolveRequest struct {
	session.Envelope
	Key        string `json:"key"`
	MaxStaleMS int64  `json:"max_stale_ms"`
}

// providersRequest asks for the providers of an object. A limit of 0 means defaultLimit.
type providersRequest struct {
	session.Envelope
	Key   string `json:"key"`
	Limit int    `json:"limit"`
}

// question is a decoded request.
type question struct {
	op       string
	root     b3.Root   // zero for a name
	name     name.Name // zero for an object
	limit    int       // 1 to answer.MaxProviders
	maxStale time.Duration
}

// decodeQuestion decodes a request. The error is bad_request, bad_address or unsupported.
func decodeQuestion(r *session.Request) (question, error) {
	q := question{op: r.Op, limit: defaultLimit}
	var key string
	switch r.Op {
	case opResolve:
		var m resolveRequest
		if err := r.Decode(&m); err != nil {
			return q, err
		}
		if m.MaxStaleMS < 0 || m.MaxStaleMS > maxStale.Milliseconds() {
			return q, status.Errorf(status.BadRequest, "max_stale_ms is %d: must be 0 to %d", m.MaxStaleMS,
				maxStale.Milliseconds())
		}
		key, q.maxStale = m.Key, time.Duration(m.MaxStaleMS)*time.Millisecond
	case opProviders:
		var m providersRequest
		if err := r.Decode(&m); err != nil {
			return q, err
		}
		if m.Limit < 0 || m.Limit > answer.MaxProviders {
			return q, status.Errorf(status.BadRequest, "limit is %d: must be 1 to %d", m.Limit, answer.MaxProviders)
		}
		if m.Limit > 0 {
			q.limit = m.Limit
		}
		key = m.Key
	default:
		return q, status.Errorf(status.Unsupported, "this node has no operation %.32q of the index", r.Op)
	}
	if len(key) > maxKey {
		return q, status.Errorf(status.BadAddress, "the key has %d bytes, at most %d", len(key), maxKey)
	}
	var err error
	if q.root, err = b3.Parse(key); err == nil {
		return q, nil
	}
	if r.Op == opProviders {
		return q, err
	}
	q.name, err = name.Parse(key)
	return q, err
}

// resolveAnswer is the answer to resolve on the wire.
type resolveAnswer struct {
	answer.Resolved
	Records []string `json:"records"`
}

// providersAnswer is the answer to providers on the wire.
type providersAnswer struct {
	answer.Providers
	Records []string `json:"records"`
}

// recordText is the encoding of a record in an answer.
var recordText = base64.RawURLEncoding.Strict()

// Answer is the knowledge of a node about a key, with the records that prove it.
type Answer struct {
	answer.Resolved
	// Names are the envelopes of the chain in its order; of a name that equivocates, two.
	Names [][]byte
	// Proofs are the signed records of Providers, in their order.
	Proofs []record.Proof
}

// encode returns the answer to op in at most oap.MaxJSON bytes. It leaves out the last providers if
// they do not fit.
func (a Answer) encode(op string) ([]byte, error) {
	n := min(len(a.Resolved.Providers), len(a.Proofs), answer.MaxProviders)
	for {
		a.Resolved.Providers, a.Proofs = a.Resolved.Providers[:n:n], a.Proofs[:n:n]
		p, err := json.Marshal(a.message(op))
		if err != nil {
			return nil, status.Errorf(status.Internal, "encode the answer: %w", err)
		}
		switch {
		case len(p) <= oap.MaxJSON:
			return p, nil
		case n == 0:
			return nil, status.Errorf(status.Internal, "the answer has %d bytes, at most %d", len(p), oap.MaxJSON)
		}
		n -= (n + 7) / 8
	}
}

// message returns the answer as it is on the wire.
func (a Answer) message(op string) any {
	records := make([]string, 0, len(a.Names)+2*len(a.Proofs))
	for _, e := range a.Names {
		records = append(records, recordText.EncodeToString(e))
	}
	for _, p := range a.Proofs {
		records = append(records, recordText.EncodeToString(p.Envelope), recordText.EncodeToString(p.PeerRecord))
	}
	if a.Resolved.Providers == nil {
		a.Resolved.Providers = []answer.Provider{}
	}
	if op == opProviders {
		r := a.Resolved
		return providersAnswer{
			answer.Providers{
				Key: r.Key, Providers: r.Providers, Source: r.Source, AgeMS: r.AgeMS, LookupID: r.LookupID,
			}, records,
		}
	}
	return resolveAnswer{a.Resolved, records}
}

// decodeRecords returns the records of an answer to op, encoded as the peer sent them, and nothing
// else of it: only records can be verified. The error is upstream.
func decodeRecords(op string, p []byte) ([][]byte, error) {
	var texts []string
	var err error
	if op == opProviders {
		var a providersAnswer
		err = oap.DecodeJSON(p, &a, false)
		texts = a.Records
	} else {
		var a resolveAnswer
		err = oap.DecodeJSON(p, &a, false)
		texts = a.Records
	}
	if err != nil {
		return nil, status.Errorf(status.Upstream, "the peer's answer is malformed: %w", err)
	}
	if len(texts) > MaxRecords {
		return nil, status.Errorf(status.Upstream,
			"the peer's answer has %d records, at most %d", len(texts), MaxRecords)
	}
	records := make([][]byte, len(texts))
	for i, s := range texts {
		if records[i], err = recordText.DecodeString(s); err != nil {
			return nil, status.Errorf(status.Upstream, "record %d of the peer's answer is not base64url: %w", i+1, err)
		}
	}
	return records, nil
}
