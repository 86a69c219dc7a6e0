package dht

import "allium/protocols/dcbor"

// canonical is the form of the exchange and of records.
var canonical = dcbor.New(max(maxProviders, maxCloser))
