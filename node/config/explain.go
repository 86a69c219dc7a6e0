package config

import (
	"allium/protocols/status"
)

// Explained is the answer of `allium config explain` for a key.
type Explained struct {
	Value
	Env string `json:"env"` // the variable that sets it; empty for a fixed key, and a name that it cannot say
	Hot bool   `json:"hot"` // a reload (SIGHUP, POST /admin/reload) applies a changed value

	// Reread says when a running node reads the file again that the value names;
	// empty for a key that names no such file.
	Reread string `json:"reread,omitempty"`
}

// rereadFiles are the keys that name a file whose new content a running node
// applies, and when it does so.
var rereadFiles = map[string]string{
	"gateway.denylist":  "within seconds of a change, and at a reload (SIGHUP)",
	"listen.allow":      "within seconds of a change, and at a reload (SIGHUP)",
	"listen.deny":       "within seconds of a change, and at a reload (SIGHUP)",
	"gateway.tls.cert":  "within seconds of a change, and at a reload (SIGHUP)",
	"gateway.tls.key":   "within seconds of a change, and at a reload (SIGHUP)",
	"gateway.tls.certs": "within seconds of a change, and at a reload (SIGHUP)",
	"dht.seed_manifest": "before every round of dials",

	"store.s3.credentials_file": "every five minutes",
}

// Explain returns what is known of a key that can be set, or of one that is fixed
// now. A key of a table may have any name, also NAME. An unknown key is
// status.BadRequest, and the error names the nearest known key.
func (l Loaded) Explain(name string) (Explained, error) {
	for _, v := range Fixed() {
		if v.Name == name {
			return Explained{Value: v}, nil
		}
	}
	form, _ := formOf(name)
	explained := func(v Value) (Explained, error) {
		return Explained{
			Value: v, Env: variable(name), Hot: IsHot(form), Reread: rereadFiles[form],
		}, nil
	}
	for _, v := range l.Values() {
		if v.Name == name {
			return explained(v)
		}
	}
	for _, k := range Keys() {
		if k.Name == form { // of an entry that nothing sets
			k.Name = name
			return explained(Value{Key: k, Value: k.Default, Source: FromDefault})
		}
	}
	return Explained{}, unknownKey(name)
}

// unknownKey is the error of a key that does not exist.
func unknownKey(name string) error {
	return status.Errorf(status.BadRequest, "unknown key %q%s", name, didYouMean(name))
}
