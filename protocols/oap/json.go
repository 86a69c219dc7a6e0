package oap

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"allium/protocols/status"
)

// Bounds of a JSON payload (SPEC.md §3).
const (
	MaxJSON    = 64 << 10  // bytes
	maxInteger = 1<<53 - 1 // the largest integer that every JSON implementation represents exactly
)

// DecodeJSON decodes a JSON payload into v. Keys are case-sensitive. It returns status bad_request,
// and leaves v undefined, for:
//
//   - a payload of more than MaxJSON bytes, or one that is not UTF-8
//   - duplicate keys, and trailing data
//   - numbers beyond ±(2^53 − 1)
//   - keys that v does not have, unless allowUnknown is true
func DecodeJSON(p []byte, v any, allowUnknown bool) error {
	if len(p) > MaxJSON {
		return status.Errorf(status.BadRequest,
			"the JSON payload has %d bytes, at most %d are allowed", len(p), MaxJSON)
	}
	if err := json.Unmarshal(p, v, json.RejectUnknownMembers(!allowUnknown)); err != nil {
		return status.Errorf(status.BadRequest, "malformed JSON payload: %w", err)
	}
	if n := hugeNumber(p); n != nil {
		return status.Errorf(status.BadRequest, "malformed JSON payload: %s is beyond ±(2^53 − 1)", n)
	}
	return nil
}

// hugeNumber returns the first number in well-formed JSON that is beyond
// ±maxInteger, or nil.
func hugeNumber(p []byte) []byte {
	for len(p) > 0 {
		switch c := p[0]; {
		case c == '"':
			p = p[stringLen(p):]
		case c == '-' || c >= '0' && c <= '9':
			n := 1
			for n < len(p) && strings.IndexByte("+-.0123456789Ee", p[n]) >= 0 {
				n++
			}
			if f, err := strconv.ParseFloat(string(p[:n]), 64); err != nil || f > maxInteger || f < -maxInteger {
				return p[:n]
			}
			p = p[n:]
		default:
			p = p[1:]
		}
	}
	return nil
}

// stringLen returns the length of the JSON string at the start of p, quotes included.
func stringLen(p []byte) int {
	for i := 1; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(p)
}
