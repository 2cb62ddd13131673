# Puts the folder data of an image to DESTINATION. Tries without credentials, then with each file of
# credentials in turn. Running it again replaces what an earlier run left.
work=$(mktemp -d)

copy_image() {
    if skopeo copy --dest-decompress "docker://${IMAGE}" "dir:${work}/image"; then
        return 0
    fi
    for credentials in "${HOME}"/.docker/config.d/*/*.json; do
        [ -e "${credentials}" ] || continue
        if skopeo copy --dest-decompress --authfile="${credentials}" "docker://${IMAGE}" "dir:${work}/image"; then
            return 0
        fi
    done
    echo "${IMAGE} cannot be pulled, with none of the credentials" >&2
    return 1
}

copy_image
mkdir "${work}/root"
for layer in $(skopeo inspect --format '{{range .Layers}}{{.}} {{end}}' "dir:${work}/image"); do
    tar -x -f "${work}/image/${layer#sha256:}" -C "${work}/root"
done
rm -rf "${DESTINATION}"
mkdir -p "$(dirname "${DESTINATION}")"
mv "${work}/root/data" "${DESTINATION}"
