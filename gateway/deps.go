package gateway

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/upload"
	"allium/internal/limits"
)

// Node answers the local API; see [api.Node].
type Node = api.Node

// What a node has to bring is declared by the packages that use it.
type (
	// Capabilities judge tokens; see [exchange.Capabilities].
	Capabilities = exchange.Capabilities
	// Audit records changes; see [exchange.Audit].
	Audit = exchange.Audit
	// Denylist says what is not served; see [exchange.Denylist].
	Denylist = exchange.Denylist

	// Opener opens objects; see [content.Opener].
	Opener = content.Opener
	// Objects opens what an address names; see [content.Objects].
	Objects = content.Objects
	// OpenOptions say how an object is opened; see [content.OpenOptions].
	OpenOptions = content.OpenOptions
	// Content is an open object; see [content.Content].
	Content = content.Content

	// Uploads stores what clients send; see [upload.Store].
	Uploads = upload.Store
	// UploadOptions say what an upload is held to; see [upload.Options].
	UploadOptions = upload.Options
	// Upload is what is known of an upload; see [upload.Upload].
	Upload = upload.Upload
)

// Deps is what a Gateway works with. Objects, Node and Ready are needed.
type Deps struct {
	Objects      Objects
	Node         Node
	Ready        func() api.Readiness // cheap, never waits
	Version      api.Version
	Capabilities Capabilities // nil: over TCP nothing can be changed
	Uploads      Uploads      // nil: nothing can be uploaded but with the local API
	Audit        Audit        // nil: nothing is recorded
	Denylist     Denylist     // nil: nothing is denied
	Socket       string       // path of the Unix socket (api.SocketPath); empty: none
	ACMEDir      string       // where ACME keeps its account and certificates; empty: in RAM

	Now      func() time.Time      // of certificates; nil: time.Now
	Log      *slog.Logger          // nil discards
	Metrics  prometheus.Registerer // nil: not registered
	Gatherer prometheus.Gatherer   // what /metrics shows; nil: nothing
	Limits   *limits.Registry      // nil: listed nowhere
}
