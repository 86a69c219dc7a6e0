package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"
)

type deferKey struct{}

// lies are what a gateway does to the encodings that it passes on.
var lies = map[string]func(w http.ResponseWriter, body []byte) []byte{
	"honest": func(_ http.ResponseWriter, b []byte) []byte { return b },
	"first":  func(_ http.ResponseWriter, b []byte) []byte { b[min(1000, len(b)-1)] ^= 1; return b },
	"middle": func(_ http.ResponseWriter, b []byte) []byte { b[len(b)/2] ^= 1; return b },
	"last":   func(_ http.ResponseWriter, b []byte) []byte { b[len(b)-1] ^= 1; return b },
	"size": func(_ http.ResponseWriter, b []byte) []byte {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+1)
		return b
	},
	"short": func(_ http.ResponseWriter, b []byte) []byte { return b[:len(b)-10] },
	"long":  func(_ http.ResponseWriter, b []byte) []byte { return append(b, 0) },
	"html": func(w http.ResponseWriter, _ []byte) []byte {
		w.Header().Set("Content-Type", "text/html")
		return []byte("<!doctype html><title>Welcome to this hotel</title>")
	},
	"away": func(w http.ResponseWriter, _ []byte) []byte {
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil
	},
	"ok": func(w http.ResponseWriter, _ []byte) []byte { // a problem that claims to be none
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadGateway)
		return []byte(`{"reason":"ok","detail":"all \u001b[32mfine"}`)
	},
}

// cmdLiar starts a gateway that need not be trusted, and is not to be.
func cmdLiar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 || lies[args[1]] == nil {
		ts.Fatalf("usage: liar VAR HOW URL")
	}
	lie, base := lies[args[1]], args[2]
	tr := &http.Transport{DisableKeepAlives: true}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, base+r.URL.RequestURI(), nil)
		if err != nil {
			panic(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		var body bytes.Buffer
		if _, err := io.Copy(&body, resp.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		if resp.StatusCode != http.StatusOK {
			w.WriteHeader(resp.StatusCode)
			_, _ = w.Write(body.Bytes())
			return
		}
		_, _ = w.Write(lie(w, body.Bytes()))
	}))
	ts.Value(deferKey{}).(func(func()))(s.Close)
	ts.Setenv(args[0], s.URL)
}
