// Package openb replays the OpenB traces (Alibaba's cluster-trace-gpu-v2023) exactly as the FGD
// paper's simulator did, so that packing can be compared with the published numbers: the same
// nodes, the same pods, the same arrivals for a seed, dropped when they don't fit.
//
// The traces are not in the repository; their folder is handed in.
package openb
