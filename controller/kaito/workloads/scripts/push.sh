# Waits for the end of a tuning, which the file fine_tuning_completed.txt in RESULTS shows, and
# pushes the adapter as the folder data of an image.
until [ -e "${RESULTS}/fine_tuning_completed.txt" ]; do
    sleep 1
done

work=$(mktemp -d)
mkdir "${work}/data"
cp -R "${RESULTS}/adapter_config.json" "${RESULTS}/adapter_model.safetensors" "${work}/data"
tar -c -f "${work}/layer.tar" -C "${work}" data
digest=$(sha256sum "${work}/layer.tar" | cut -d ' ' -f 1)
gzip -9 "${work}/layer.tar"
printf '{"rootfs":{"diff_ids":["sha256:%s"]}}' "${digest}" > "${work}/config.json"
printf '%s' "${ANNOTATIONS}" > "${work}/annotations.json"

cd "${work}"
oras push --disable-path-validation --oci-layout \
    --annotation-file annotations.json \
    --config config.json:application/vnd.oci.image.config.v1+json \
    layout:latest layer.tar.gz:application/vnd.oci.image.layer.v1.tar+gzip
oras cp --from-oci-layout layout:latest "${IMAGE}"
