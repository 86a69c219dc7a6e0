// Package codec encodes and decodes the segments of the store's log: the segment header,
// the records, and their checksums. It does not know what a record means to the log.
// FORMAT.md defines every byte.
//
// A record header carries the random epoch of its segment and a checksum over its own
// offset. Bytes that a file held earlier, or a copy of a record inside an object, therefore
// never parse as a record.
//
// To write, a Builder collects the records of one batch (Object, File, Pin, …) and Seal
// writes their headers once the offset and the batch number are known. To read,
// ReadSegmentHeader decodes the header of the file and NewReader returns a Reader, whose
// Next returns each record with its body. Next skips places where no record parses and
// lists them in Reader.Holes. It repairs one wrong byte of a header (MendSegmentHeader, and
// MendBody for bodies with a CRC). CheckSealed decides whether a segment is intact enough
// to be uploaded whole.
package codec
