package own

import "time"

// The bounds of what is published.
const (
	// maxLabels is the most labels of a zone. Holders in the DHT keep no more of a zone, either. A new
	// label beyond it is refused with quota.
	maxLabels = 1000
	// maxRecords is the most records of all zones together, which are in RAM: at most 20 MiB. A new
	// label beyond it is refused with quota.
	maxRecords = 10_000
	// maxFile is the most bytes of the file of a zone: maxLabels envelopes of name.MaxEnvelope bytes in
	// base64, a line each, and the head. A longer file is refused as damaged.
	maxFile = maxLabels*2800 + 1024
	// MinLife is the shortest life of a record. Half of it is the time between two signatures.
	MinLife = 10 * time.Minute
)

// The pace of the work.
const (
	// findTimeout bounds the question for the record that the peers have. Publish goes on without an
	// answer; Run asks again later.
	findTimeout = 5 * time.Second
	// sendTimeout bounds the sending of one record, whatever Deps.Send does.
	sendTimeout = 30 * time.Second
	// sendsAtOnce is the maximum number of records that Run works on at a time.
	sendsAtOnce = 4
	// firstRetry is the pause after the first time that no peer took a record. It doubles each time, up
	// to lastRetry.
	firstRetry = 10 * time.Second
	lastRetry  = time.Hour
	// lookEvery is the longest time between two looks of Run for records that are due, in case the clock was set.
	lookEvery = time.Minute
	// waiting is the maximum number of calls that wait while another one writes. Further ones are busy.
	waiting = 64
)
