package audit

// Params are the numbers of the audit log that nobody tunes. Tests set them through [Config].
type Params struct {
	// Queue bounds the records that wait to be written. A mutation that finds no room for its record
	// is refused with busy.
	Queue int `fixed:"queue"`

	// Refusals bounds the refusals a second that are recorded of each outcome. The others are counted
	// in one record.
	Refusals float64 `fixed:"refusals"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		Queue:    512,
		Refusals: 20,
	}
}
