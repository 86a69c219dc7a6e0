// Package protocols is a fixture.
package protocols
