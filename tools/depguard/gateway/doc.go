// Package gateway is a fixture.
package gateway
