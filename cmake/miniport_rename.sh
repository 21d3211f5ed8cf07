#!/bin/sh
# Renames the Microsoft-mangled symbols of an object so that an ELF linker takes them: '@' means a symbol version there, '~' nothing.
# src/loader/symbol_name reads them.
#   miniport_rename.sh <nm> <objcopy> <object>
set -e
nm="$1"; objcopy="$2"; object="$3"
"$nm" --format=just-symbols "$object" 2>/dev/null | grep '@' | sort -u |
  awk '{ renamed = $0; gsub(/@/, "~", renamed); print $0, renamed }' > "$object.names" || true
if [ -s "$object.names" ]; then "$objcopy" --redefine-syms="$object.names" "$object"; fi
