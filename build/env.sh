# What the Makefile exports, for a shell and what is started from it (editors, gopls):  . build/env.sh
# For bash and zsh. In another shell: eval "$(make -s env)" from the repository's root.
_sluice_root=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE:-$0}")/.." && pwd)
if [ -f "$_sluice_root/Makefile" ] && [ -d "$_sluice_root/third_party" ]; then
	eval "$(make -s -C "$_sluice_root" --no-print-directory env)"
else
	echo "env.sh: source it by its path in Sluice's repository (. build/env.sh)" >&2
fi
unset _sluice_root
