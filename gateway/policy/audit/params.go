package audit

// Params are the numbers of the audit log that nobody tunes. Tests set them through [Config].
type Params struct {
	// Queue is the most records that wait to be written. If the queue stays full for 5 s, a mutation
	// is refused with busy.
	Queue int `fixed:"queue"`

	// Refusals is the most refusals per second and outcome that are recorded. The others are counted
	// in one record.
	Refusals float64 `fixed:"refusals"`
}

// defaultParams returns the values of a node.
func defaultParams() Params {
	return Params{
		Queue:    512,
		Refusals: 20,
	}
}
