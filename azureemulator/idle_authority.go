// SPDX-License-Identifier: Apache-2.0

package azureemulator

// IdleAuthority is a certificate authority for clusters whose API server is never dialled: a
// node's bootstrap must name one. Its ECDSA key was thrown away, so it signs nothing.
const IdleAuthority = `-----BEGIN CERTIFICATE-----
MIIBTDCB86ADAgECAgEBMAoGCCqGSM49BAMCMBUxEzARBgNVBAMTCmthcnZlIHRl
c3QwIBcNMjYwMTAxMDAwMDAwWhgPMjEyNjAxMDEwMDAwMDBaMBUxEzARBgNVBAMT
CmthcnZlIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR+nrs1PDcA2YFI
awotXkKMh9fiz9kevfOb0w5Du4o1J+dM99uunNM//itYqoAD8YuK93XL577xGkcs
GiBPjx9kozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBR6/ziOoVPYrr5Z
PaZ9vtFTPH5RjjAKBggqhkjOPQQDAgNIADBFAiBpSJfKm9g2OXhdSceLMI21ENS2
fOZurNvYyMK9s2nKGQIhAPXz51aphcQFHLJwhcQ9wCUC+79ZTCo1w71VlmJOVGl/
-----END CERTIFICATE-----
`
