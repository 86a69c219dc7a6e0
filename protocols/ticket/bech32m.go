package ticket

import "strings"

// charset are the digits of bech32 by their values.
const charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

const (
	bech32mConst   = 0x2bc830a3 // the checksum of BIP-350
	checksumDigits = 6
)

// digits has the value of each character of charset, and -1 for all others.
var digits = func() (d [256]int8) {
	for i := range d {
		d[i] = -1
	}
	for i, c := range []byte(charset) {
		d[c] = int8(i)
	}
	return d
}()

// polymod adds values to the BCH checksum of bech32.
func polymod(checksum uint32, values ...byte) uint32 {
	for _, v := range values {
		top := checksum >> 25
		checksum = checksum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				checksum ^= g
			}
		}
	}
	return checksum
}

// polymodPrefix returns the checksum of the human-readable part, which is in lower case.
func polymodPrefix(prefix string) uint32 {
	checksum := uint32(1)
	for _, c := range []byte(prefix) {
		checksum = polymod(checksum, c>>5)
	}
	checksum = polymod(checksum, 0)
	for _, c := range []byte(prefix) {
		checksum = polymod(checksum, c&31)
	}
	return checksum
}

// encodeBech32m returns the bech32m string, in lower case, of a prefix and data.
func encodeBech32m(prefix string, data []byte) string {
	values := toDigits(data)
	checksum := polymod(polymodPrefix(prefix), append(values, make([]byte, checksumDigits)...)...) ^ bech32mConst
	var b strings.Builder
	b.WriteString(prefix + "1")
	for _, v := range values {
		b.WriteByte(charset[v])
	}
	for i := range checksumDigits {
		b.WriteByte(charset[checksum>>(5*(checksumDigits-1-i))&31])
	}
	return b.String()
}

// decodeBech32m returns the data of a bech32m string that has the prefix. It bounds no length.
func decodeBech32m(prefix, text string) ([]byte, Refusal) {
	lower := strings.ToLower(text)
	if lower != text && strings.ToUpper(text) != text {
		return nil, MixedCase
	}
	rest, ok := strings.CutPrefix(lower, prefix+"1")
	if !ok {
		return nil, NoTicket
	}
	values := make([]byte, len(rest))
	for i, c := range []byte(rest) {
		if digits[c] < 0 {
			return nil, BadCharacter
		}
		values[i] = byte(digits[c])
	}
	if len(values) < checksumDigits || polymod(polymodPrefix(prefix), values...) != bech32mConst {
		return nil, BadChecksum
	}
	data, ok := fromDigits(values[:len(values)-checksumDigits])
	if !ok {
		return nil, Malformed
	}
	return data, ""
}

// toDigits returns data in groups of five bits. The last group is padded with zeros.
func toDigits(data []byte) []byte {
	values := make([]byte, 0, (len(data)*8+4)/5+checksumDigits)
	acc, bits := uint32(0), 0
	for _, c := range data {
		acc, bits = acc<<8|uint32(c), bits+8
		for bits >= 5 {
			bits -= 5
			values = append(values, byte(acc>>bits&31))
		}
	}
	if bits > 0 {
		values = append(values, byte(acc<<(5-bits)&31))
	}
	return values
}

// fromDigits is the reverse of toDigits. ok is false unless the padding is less than a group, and zero.
func fromDigits(values []byte) (data []byte, ok bool) {
	data = make([]byte, 0, len(values)*5/8)
	acc, bits := uint32(0), 0
	for _, v := range values {
		acc, bits = acc<<5|uint32(v), bits+5
		if bits >= 8 {
			bits -= 8
			data = append(data, byte(acc>>bits))
		}
	}
	return data, bits < 5 && acc&(1<<bits-1) == 0
}
