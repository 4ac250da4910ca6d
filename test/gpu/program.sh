# program.sh, for the scripts beside it: the program under test may be packed (fermi.gz, fermi.xz), so that little has to be carried.

# program FILE DIR: says where the program is, which is FILE itself or DIR/fermi, unpacked.
program() {
	local file
	file=$(realpath "$1")
	case $file in
	*.gz | *.xz)
		python3 - "$file" "$2/fermi" <<-'PY'
			import gzip, lzma, shutil, sys
			with (gzip if sys.argv[1].endswith(".gz") else lzma).open(sys.argv[1]) as packed, open(sys.argv[2], "wb") as out:
			    shutil.copyfileobj(packed, out)
		PY
		chmod +x "$2/fermi"
		file=$2/fermi
		;;
	esac
	echo "$file"
}
