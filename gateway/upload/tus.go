package upload

import (
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// The headers of tus 1.0 (https://tus.io/protocols/resumable-upload), whose clients upload in parts. Clients
// that do not speak it leave them out.
const (
	tusResumable = "Tus-Resumable" // the version that the client or the node speaks
	tusVersion   = "Tus-Version"   // the versions that the node speaks
	tusExtension = "Tus-Extension" // what it does beside the core of the protocol
)

const (
	tusOneZero    = "1.0.0"
	tusExtensions = "creation,expiration,termination"
)

// tusErrorHeaders are the headers of every refusal of an upload in parts.
var tusErrorHeaders = []string{tusResumable, tusVersion}

// resumable returns h for a path of uploads in parts: every answer carries Tus-Resumable, and a client of another
// version is refused.
func resumable(h exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		w.Header().Set(tusResumable, tusOneZero)
		if v := r.Header.Get(tusResumable); v != "" && v != tusOneZero {
			w.Header().Set(tusVersion, tusOneZero)
			return status.Errorf(status.Precondition, "the client speaks tus %q. Use %s", exchange.Clip(v), tusOneZero)
		}
		return h(w, r, in)
	}
}

// refuseExtensions returns an error for a header of tus that would give the upload another meaning.
func refuseExtensions(h http.Header) error {
	for _, name := range []string{"Upload-Concat", "Upload-Defer-Length"} {
		if len(h.Values(name)) > 0 {
			return status.Errorf(status.Unsupported,
				"the header %s is not supported (%s: %s). Send the object as one upload, "+
					"with its length in %s", name, tusExtension, tusExtensions, uploadLength)
		}
	}
	return nil
}
