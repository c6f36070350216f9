// SPDX-License-Identifier: Apache-2.0

// Package ratelimit keeps requests to Azure within its rate limits, so that Azure throttles
// none: after a throttled request Azure demands a far longer wait than holding the request back
// would have taken.
//
// Every limit of Azure's is mirrored here as a token bucket. A request takes a token from each
// bucket it falls under; when one is empty the request waits in a queue, highest Priority first.
// Answers of Azure only ever lower the count in a bucket: other clients may use the same limits.
//
// No caller is blocked for long. Ticket returns how long to wait instead of waiting, and the
// pipeline policy answers a request that would wait for more than a few seconds as Azure would:
// with status 429 and a Retry-After header.
//
// The zero Buckets is not usable; see New.
package ratelimit
