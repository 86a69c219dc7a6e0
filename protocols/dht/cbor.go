package dht

import "allium/protocols/record"

// canonical is the form of the exchange and of records.
var canonical = record.NewCodec(max(maxProviders, maxCloser))
