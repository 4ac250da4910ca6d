// Package serving is the kind InferenceService, its replicas and where they answer.
//
// Place: layer 1, over the vocabulary. A service is a workload as its door sees it; each of its replicas is one that is placed,
// started again and charged. Promise: users write a service's spec, its controller writes status, replicas and endpoints.
// Enemies: a field that two people write, an address that two services share.
package serving
