package messages

import "allium/protocols/record"

// canonical encodes and decodes the messages of the exchange and the records.
var canonical = record.NewCodec(max(MaxProviders, MaxCloser))
