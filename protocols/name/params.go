package name

import "time"

// The bounds of labels and values.
const (
	MaxLabel      = 63                      // bytes of a label in normal form
	maxLabelInput = 4 * MaxLabel            // bytes that ParseLabel reads: normalising can shorten a label
	maxZoneInput  = 128                     // bytes that ParseZone reads; both forms have about 60
	maxReference  = maxLabelInput + 1 + 255 // bytes that Split reads: a label and a key or a host name
	MaxValue      = 1 << 10                 // bytes of a value
	MaxSteps      = 4                       // names that a resolver follows from one to the next
)

// The bounds of a record (OAP1 §11). A record outside is refused by every node.
const (
	MaxEnvelope = 2 << 10             // bytes of a signed record
	MaxLife     = 30 * 24 * time.Hour // longest time until not_after
	DefaultLife = 7 * 24 * time.Hour  // for publishers that choose no other
	MinTTL      = 5 * time.Second
	MaxTTL      = 24 * time.Hour
	DefaultTTL  = time.Minute     // for publishers that choose no other
	ClockSkew   = 2 * time.Minute // how far the clock of a signer may be ahead
)

// The bounds of a zone map.
const (
	MaxMapEntries  = 4096
	MaxMapEnvelope = 256 << 10            // bytes of a signed map
	MaxMapText     = 384 << 10            // bytes of the text form, line ends included
	MaxMapLife     = 365 * 24 * time.Hour // longest time until not_after
)
