// Package verified reads from and uploads to gateways that need not be trusted:
// every byte that it returns was proved against the address asked for.
package verified
