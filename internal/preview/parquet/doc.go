// Package parquet reads the first rows of a Parquet file, for people to look at.
//
// Place: layer 5, below the preview of datasets. Promise: whatever a file says of itself, a bounded number of its bytes is read, kept and unpacked: each length is
// compared with what is there before anything of that length is made. What it can't show (an encoding, a codec, a page that is too large) is one column of
// dots, not a fault. Enemies: lengths that lie, pages that unpack to gigabytes, schemas that go down for ever, runs of a billion values.
//
// The simple story: the last bytes say where the columns of the first group of rows lie; of each column pages are read until there are rows enough. How the code
// differs: columns of lists have levels beside their values, which say where a row begins.
package parquet
