package term

import "allium/internal/limits"

// Size is the value of a flag such as 256MiB.
type Size limits.Bytes

// Type implements pflag.Value.
func (b *Size) Type() string { return "size" }

// String implements pflag.Value.
func (b *Size) String() string { return limits.Bytes(*b).String() }

// Set implements pflag.Value.
func (b *Size) Set(s string) error {
	n, err := limits.ParseBytes(s)
	*b = Size(n)
	return err
}
